// Package nginx holds tests of the program behind a real nginx, as Debian packages it and with deploy/nginx.conf. They run
// with INDEXD_NGINX=1 and fail then if there is no nginx.
package nginx
