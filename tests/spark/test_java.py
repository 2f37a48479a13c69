"""Which Java Spark runs on."""

import os

import pytest

from evenly.errors import JavaNotFound
from evenly.spark import java


def fake_java(folder, version_line):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{version_line}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("line", "version"), [('java version "1.8.0_292"', 8), ('openjdk version "17.0.15" 2025-04-15', 17), ("what?", 0)]
)
def test_the_version_is_read_from_what_java_prints(tmp_path, line, version):
    assert java.java_version(str(fake_java(tmp_path, line) / "bin" / "java")) == version


def test_an_old_java_home_gives_way_to_the_packaged_java(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", 'java version "1.8.0_292"')))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = java.provide_java()
    assert found.startswith(str(tmp_path / "cache"))
    assert java.java_version(found) >= java.LEAST_VERSION
    assert os.environ["JAVA_HOME"] in found


def test_without_a_cache_to_write_to_the_packaged_java_is_found_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", 'java version "1.8.0_292"')))
    (tmp_path / "cache").write_text("a file, not a folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path))
    assert java.java_version(java.provide_java()) >= java.LEAST_VERSION


def test_without_any_java_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", 'java version "11.0.2"')))
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(JavaNotFound, match=r"Java 17 or later.*pip install.*is Java 11"):
        java.provide_java()
