"""A live page of what runs: records in, server-sent events out, on a server that only this machine can reach unless told."""
