"""An experiment in words: its events, how it is doing, and what an order will do."""
