"""The OSG paper's figures."""
