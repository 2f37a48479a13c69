"""What a run showed: data first, then its rendering."""
