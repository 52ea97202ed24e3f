"""What callers reach: gRPC and HTTP servers, the services on them, routing to the leader."""
