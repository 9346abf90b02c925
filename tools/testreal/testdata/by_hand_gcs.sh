NOW=$(date +%s)

# The JSON API:
curl -f -X POST -d '' -H "Authorization: Bearer $TOKEN" \
  "$ENDPOINT/upload/storage/v1/b/$BUCKET/o?uploadType=media&name=_active_runs/default/by-curl_$NOW"

indexd cards --bucket "gs://$BUCKET?endpoint=$ENDPOINT"

curl -f -X DELETE -H "Authorization: Bearer $TOKEN" \
  "$ENDPOINT/storage/v1/b/$BUCKET/o/_active_runs%2Fdefault%2Fby-curl_$NOW"

indexd cards --bucket "gs://$BUCKET?endpoint=$ENDPOINT"
