"""What needs systemd as process 1: tests/integration/test_vm.py runs it in a virtual machine."""
