"""What objects of Kubernetes say, as records of ours, and the other way round. Pure: no API server is asked."""
