"""Put any unit into any model: plan it, do it, prove it."""
