package nfs3

import "github.com/stag-rdma/stag/xdr"

// SetAttr is a sattr3: the attributes to change, 24 to 60 octets (RFC 1813 Section 2.6).
// A value counts only if its Set field is true, a time only if its How is not DontChange.
type SetAttr struct {
	SetMode  bool
	SetUID   bool
	SetGID   bool
	SetSize  bool
	Mode     uint32
	UID      uint32
	GID      uint32
	Size     uint64
	AtimeHow TimeHow
	MtimeHow TimeHow
	Atime    Time // with ClientTime
	Mtime    Time // with ClientTime
}

// IsZero reports whether s changes nothing.
func (s *SetAttr) IsZero() bool {
	return !s.SetMode && !s.SetUID && !s.SetGID && !s.SetSize && s.AtimeHow == DontChange && s.MtimeHow == DontChange
}

// Append appends the sattr3.
func (s *SetAttr) Append(b []byte) []byte {
	b = appendOpt32(b, s.SetMode, s.Mode)
	b = appendOpt32(b, s.SetUID, s.UID)
	b = appendOpt32(b, s.SetGID, s.GID)
	b = xdr.AppendBool(b, s.SetSize)
	if s.SetSize {
		b = xdr.AppendUint64(b, s.Size)
	}
	b = appendSetTime(b, s.AtimeHow, s.Atime)
	return appendSetTime(b, s.MtimeHow, s.Mtime)
}

func appendOpt32(b []byte, set bool, v uint32) []byte {
	b = xdr.AppendBool(b, set)
	if set {
		b = xdr.AppendUint32(b, v)
	}
	return b
}

func appendSetTime(b []byte, how TimeHow, t Time) []byte {
	b = xdr.AppendUint32(b, uint32(how))
	if how == ClientTime {
		b = t.append(b)
	}
	return b
}

// Parse reads the sattr3.
func (s *SetAttr) Parse(d *xdr.Decoder) error {
	s.parse(d)
	return d.ErrIn("sattr3")
}

func (s *SetAttr) parse(d *xdr.Decoder) {
	if s.SetMode = d.Bool(); s.SetMode {
		s.Mode = d.Uint32()
	}
	if s.SetUID = d.Bool(); s.SetUID {
		s.UID = d.Uint32()
	}
	if s.SetGID = d.Bool(); s.SetGID {
		s.GID = d.Uint32()
	}
	if s.SetSize = d.Bool(); s.SetSize {
		s.Size = d.Uint64()
	}
	s.AtimeHow = parseSetTime(d, &s.Atime)
	s.MtimeHow = parseSetTime(d, &s.Mtime)
}

func parseSetTime(d *xdr.Decoder, t *Time) TimeHow {
	how := TimeHow(enum(d, uint32(DontChange), uint32(ClientTime)))
	if how == ClientTime {
		t.parse(d)
	}
	return how
}
