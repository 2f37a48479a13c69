"""The shared link of one machine: queues, signals, and the agent that leads."""
