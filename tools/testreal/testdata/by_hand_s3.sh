NOW=$(date +%s)
MARKERS=_active_runs/default

# The AWS CLI:
aws --endpoint-url $ENDPOINT s3api put-object --bucket $BUCKET --key $MARKERS/by-aws_$NOW

# curl, with a URL that somebody who has the credentials made:
presign() { python3 -c 'import boto3, sys
s3 = boto3.client("s3", endpoint_url=sys.argv[1], config=boto3.session.Config(signature_version="s3v4"))
print(s3.generate_presigned_url(sys.argv[4], {"Bucket": sys.argv[2], "Key": sys.argv[3]}))' $ENDPOINT $BUCKET "$@"; }
curl -f -X PUT -d '' "$(presign $MARKERS/by-url_$NOW put_object)"

# curl, with credentials of its own:
curl -f -X PUT -d '' -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' --aws-sigv4 "aws:amz:$AWS_DEFAULT_REGION:s3" \
  --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" $ENDPOINT/$BUCKET/$MARKERS/by-curl_$NOW

# Python:
python3 -c 'import boto3, sys
boto3.client("s3", endpoint_url=sys.argv[1]).put_object(Bucket=sys.argv[2], Key=sys.argv[3])' $ENDPOINT $BUCKET $MARKERS/by-python_$NOW

indexd cards --bucket "s3://$BUCKET?endpoint=$ENDPOINT"

aws --endpoint-url $ENDPOINT s3api delete-object --bucket $BUCKET --key $MARKERS/by-aws_$NOW
curl -f -X DELETE "$(presign $MARKERS/by-url_$NOW delete_object)"
curl -f -X DELETE -H 'x-amz-content-sha256: UNSIGNED-PAYLOAD' --aws-sigv4 "aws:amz:$AWS_DEFAULT_REGION:s3" \
  --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" $ENDPOINT/$BUCKET/$MARKERS/by-curl_$NOW
python3 -c 'import boto3, sys
boto3.client("s3", endpoint_url=sys.argv[1]).delete_object(Bucket=sys.argv[2], Key=sys.argv[3])' $ENDPOINT $BUCKET $MARKERS/by-python_$NOW

indexd cards --bucket "s3://$BUCKET?endpoint=$ENDPOINT"
