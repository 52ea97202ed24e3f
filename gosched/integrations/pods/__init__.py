"""Pods of a Kubernetes cluster that run tasks of gosched."""
