"""The Hone paper's figures."""
