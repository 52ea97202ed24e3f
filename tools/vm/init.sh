#!/bin/busybox sh
# First program of the guest: the modules in order, then the root file system.
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
for module in /modules/*; do
    /bin/busybox insmod "$module" || echo "guest: cannot load $module"
done
tries=0
until [ -b /dev/vdd ] || [ $tries -ge 1200 ]; do tries=$((tries + 1)); /bin/busybox usleep 50000; done
/bin/busybox mount -t ext4 -o noatime /dev/vda /root || echo "guest: no root file system"
/bin/busybox umount /proc /sys
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/start
