module github.com/stag-rdma/stag/transport/examples/gonfsclient

go 1.26.0

require (
	github.com/stag-rdma/stag v0.0.0
	github.com/willscott/go-nfs-client v0.0.0-20240104095149-b44639837b00
)

require (
	github.com/rasky/go-xdr v0.0.0-20170124162913-1a41d1a06c93 // indirect
	github.com/stretchr/testify v1.9.0 // indirect
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/stag-rdma/stag => ../../..
