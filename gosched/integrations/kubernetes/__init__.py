"""gosched as a scheduler of Kubernetes: `gosched-kube`, a bridge between an API server and the masters.

To the masters each Kubernetes node is a node with an agent, and each pod (or gang of pods) a job. A start order becomes
a binding, a stop order an eviction, and what becomes of the pod is the task's report.

Invariant: the bridge holds no state of its own. What it knows it can list again, from the API server (a bound pod's
annotation names its allocation) and from the masters.
"""
