package transport_test

import (
	"testing"
)

// TestPreferReplyChunk: a reply that fits inline leaves by the reply chunk when the server
// is told so, as Linux does it.
func TestPreferReplyChunk(t *testing.T) {
	for _, prefer := range []bool{false, true} {
		cfg := testConfig()
		cfg.PreferReplyChunk = prefer
		s, c := pair(t, newEcho(), cfg, nil)
		call := wordCall(procList, 10)
		call.MaxResults = 20_000
		wantList(t, mustDo(t, c, call), 10)
		if st := s.Stats(); (st.OctetsWritten == 24+40) != prefer {
			t.Errorf("prefer %v: %+v", prefer, st)
		}
	}
}
