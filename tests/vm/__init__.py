"""What needs root and pure cgroup v2: tests/integration/test_vm.py runs it in a virtual machine, never on this one."""
