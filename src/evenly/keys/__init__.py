"""What product code decides about keys: mappings, DKG, drift, keys split over instances."""
