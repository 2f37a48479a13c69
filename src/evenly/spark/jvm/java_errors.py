"""What a call of the JVM raises."""

from py4j.protocol import Py4JError, Py4JJavaError

__all__ = ["Py4JError", "Py4JJavaError"]
