"""The same admin requests to Pulsar and to the dev broker: their answers must have the same shape."""
