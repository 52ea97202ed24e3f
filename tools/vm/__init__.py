"""A small virtual machine with pure cgroup v2, for the tests that need one: this checkout and its Python in a Debian
kernel under qemu, with nothing installed but qemu and e2fsprogs.

Invariant: the guest is made from what is on this machine, and nothing in this machine is changed by it.
"""
