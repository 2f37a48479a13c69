"""One module a paper: what was published beside what is measured."""
