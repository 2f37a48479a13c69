"""What running things tell of themselves: small records, one format for all, and where they go."""
