# Starts Ceph's RADOS Gateway on one monitor and one OSD in memory: ceph.sh DATA PORT KEY SECRET. All of it listens on
# 127.0.0.1, on PORT and the ports above, and ends with this process's group.
set -euo pipefail
data=$1 port=$2 key=$3 secret=$4
fsid=$(cat /proc/sys/kernel/random/uuid)
export CEPH_CONF=$data/ceph.conf
cat > "$CEPH_CONF" <<EOF
[global]
fsid = $fsid
mon host = v1:127.0.0.1:$((port + 1))
ms bind msgr2 = false
ms bind port min = $((port + 2))
ms bind port max = $((port + 20))
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
run dir = $data
admin socket = $data/\$name.asok
log file = $data/\$name.log
pid file =
crash dir = $data
mon data = $data/mon
mon allow pool size one = true
osd data = $data/osd
osd objectstore = memstore
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
osd crush update on start = false
osd class update on start = false
[client.rgw]
rgw data = $data/rgw
rgw frontends = beast endpoint=127.0.0.1:$port
EOF
mkdir "$data/mon" "$data/osd" "$data/rgw"
monmaptool --create --fsid "$fsid" --addv a "[v1:127.0.0.1:$((port + 1))]" "$data/monmap"
ceph-mon --mkfs -i a --monmap "$data/monmap"
ceph-mon -f -i a &
uuid=$(cat /proc/sys/kernel/random/uuid)
ceph --connect-timeout 60 osd new "$uuid" 0
ceph osd crush add osd.0 1.0 root=default # the OSD itself would try once, perhaps before the monitor has told it where it is
ceph-osd -i 0 --mkfs --osd-uuid "$uuid"
ceph-osd -f -i 0 &
radosgw-admin user create --uid test --display-name test --access-key "$key" --secret "$secret"
exec radosgw -f -n client.rgw
