"""The POSG paper's figures."""
