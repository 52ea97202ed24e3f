#!/bin/sh
# What runs as process 1 of the guest: pure cgroup v2, loopback, the checkout from the second disk, then the command
# from it, as a child or as a service of systemd. The fourth disk is /disk, for data of tests.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb
mount -t proc proc /proc
mount -t sysfs sys /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
[ -n "$(ls -A /tmp)" ] || mount -t tmpfs -o mode=1777 tmp /tmp # the interpreter's environment may be there
mount -t tmpfs -o mode=755 run /run
mount -t cgroup2 -o nsdelegate none /sys/fs/cgroup
ip link set lo up
hostname guest
mount -t ext4 /dev/vdd /disk
tar -x -f /dev/vdb -C /
# A beat of each CPU: whoever started the guest knows by them that it lives.
for cpu in $(seq 0 $(($(nproc) - 1))); do
    taskset -c "$cpu" sh -c 'echo -1000 >/proc/self/oom_score_adj; while echo "$0"; do sleep 5; done' "$cpu" >/dev/ttyS1 &
done
[ ! -e /with-systemd ] || exec /lib/systemd/systemd --unit=guest.service --show-status=no --default-standard-output=tty
exec /sbin/finish
