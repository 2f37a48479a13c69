"""The DKG paper's figures."""
