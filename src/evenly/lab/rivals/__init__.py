"""Published groupings that product code is compared with."""
