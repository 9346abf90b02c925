# Starts SeaweedFS in one process: seaweedfs.sh WEED DATA PORT KEY SECRET. Its parts listen on 127.0.0.1, on PORT and the
# ports above. Each bucket takes some volumes of its own, and each suite makes a bucket a case.
set -euo pipefail
weed=$1 data=$2 port=$3 key=$4 secret=$5
cat > "$data/s3.json" <<EOF
{"identities": [{"name": "test", "credentials": [{"accessKey": "$key", "secretKey": "$secret"}], "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]}
EOF
exec "$weed" server -dir "$data" -ip 127.0.0.1 -ip.bind 127.0.0.1 -s3 -s3.port "$port" -s3.config "$data/s3.json" \
  -master.port $((port + 1)) -master.port.grpc $((port + 2)) -volume.port $((port + 3)) -volume.port.grpc $((port + 4)) \
  -filer.port $((port + 5)) -filer.port.grpc $((port + 6)) -s3.port.grpc $((port + 7)) \
  -s3.port.iceberg 0 -s3.port.lance 0 -master.volumeSizeLimitMB 64 -volume.max 4000
