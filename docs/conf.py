"""The site, as Sphinx builds it from the pages that scripts/site has put together: see `make docs`."""

project = "Evenly"
author = "The Evenly authors"
project_copyright = "The Evenly authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["figures"]
language = "en"

myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["myst.header"]  # a page that is made of parts may begin a part two levels down

html_theme = "furo"
html_title = "Evenly"
html_static_path = ["_static"]
html_css_files = ["evenly.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#1b7f6b",
        "color-brand-content": "#17695a",
        "color-foreground-primary": "#22303c",
    },
    "dark_css_variables": {
        "color-brand-primary": "#55c7ae",
        "color-brand-content": "#55c7ae",
        "color-background-primary": "#14191e",
        "color-background-secondary": "#1a2127",
        "color-foreground-primary": "#dfe6ec",
    },
    "footer_icons": [],
}
pygments_style = "friendly"
pygments_dark_style = "native"
