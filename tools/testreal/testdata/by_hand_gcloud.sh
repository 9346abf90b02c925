NOW=$(date +%s)
gcloud storage cp /dev/null gs://$BUCKET/_active_runs/default/by-gcloud_$NOW

indexd cards --bucket "gs://$BUCKET?endpoint=$ENDPOINT"

gcloud storage rm gs://$BUCKET/_active_runs/default/by-gcloud_$NOW

indexd cards --bucket "gs://$BUCKET?endpoint=$ENDPOINT"
