"""States of many keys in one group of Spark's: how they are kept, found and changed, and how a function is called for each."""
