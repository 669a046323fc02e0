package mpa_test

import (
	"github.com/stag-rdma/stag/rdmap/mpa"
)

// anyRTR holds every option.
const anyRTR = mpa.RTRSend | mpa.RTRWrite | mpa.RTRRead
