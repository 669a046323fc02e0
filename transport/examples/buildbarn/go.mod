module github.com/stag-rdma/stag/transport/examples/buildbarn

go 1.26.0

require (
	github.com/buildbarn/go-xdr v0.0.0-20261005144839-a2095890273e
	github.com/stag-rdma/stag v0.0.0
)

require (
	go.uber.org/multierr v1.10.0 // indirect
	go.uber.org/zap v1.28.0 // indirect
	golang.org/x/sync v0.7.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/stag-rdma/stag => ../../..
