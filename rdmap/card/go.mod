module github.com/stag-rdma/stag/rdmap/card

go 1.26.0

require (
	github.com/stag-rdma/stag v0.0.0
	go.uber.org/zap v1.28.0
	golang.org/x/sys v0.50.0
)

require go.uber.org/multierr v1.10.0 // indirect

replace github.com/stag-rdma/stag => ../..
