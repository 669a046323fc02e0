package xdr

// Bounds of a [SysCred] (RFC 5531 Appendix A).
const (
	MaxMachineName = 255 // octets
	MaxGIDs        = 16  // supplementary groups
)

// SysCred is authsys_parms, the body of an AUTH_SYS credential (RFC 5531
// Appendix A).
//
//	octets  field
//	4       stamp, arbitrary
//	4+      machinename string<255>
//	4       uid
//	4       gid
//	4+      gids, unsigned int<16>
type SysCred struct {
	Stamp       uint32
	MachineName string // of the caller, at most MaxMachineName octets
	UID, GID    uint32
	GIDs        []uint32 // at most MaxGIDs
}

// Append appends the body to b.
//
// Choice: a name is cut to MaxMachineName octets and GIDs to MaxGIDs, as other clients do, because
// no server accepts more. So the result always parses.
func (c *SysCred) Append(b []byte) []byte {
	name, gids := c.MachineName, c.GIDs
	name = name[:min(len(name), MaxMachineName)]
	gids = gids[:min(len(gids), MaxGIDs)]
	b = AppendString(AppendUint32(b, c.Stamp), name)
	b = AppendUint32(AppendUint32(b, c.UID), c.GID)
	b = AppendUint32(b, uint32(len(gids)))
	for _, g := range gids {
		b = AppendUint32(b, g)
	}
	return b
}

// Auth returns c as a credential, with a body of its own.
func (c *SysCred) Auth() Auth { return Auth{Flavor: AuthSys, Body: c.Append(nil)} }

// ParseSysCred reads the body of an AUTH_SYS credential and copies what it
// returns. Errors are those of [SysCred.Parse].
func ParseSysCred(body []byte) (SysCred, error) {
	var c SysCred
	err := c.Parse(body)
	return c, err
}

// Parse reads c from the body of an AUTH_SYS credential and copies what it
// keeps; the capacity of GIDs and an equal MachineName are reused, so a warm
// SysCred costs no allocation.
//
// A body above MaxAuthBody, a name above MaxMachineName and more than MaxGIDs
// groups are ErrRange; octets left over are ErrTrailing. A server answers each
// of these errors with AUTH_BADCRED. After an error c is not meaningful.
func (c *SysCred) Parse(body []byte) error {
	if len(body) > MaxAuthBody {
		return &DecodeError{Field: "authsys_parms", Err: ErrRange}
	}
	d := NewDecoder(body)
	c.Stamp = d.Uint32()
	if name := d.Opaque(MaxMachineName); string(name) != c.MachineName {
		c.MachineName = string(name)
	}
	d.name("machinename")
	c.UID, c.GID = d.Uint32(), d.Uint32()
	c.GIDs = c.GIDs[:0]
	for range d.Count(MaxGIDs, 4) {
		c.GIDs = append(c.GIDs, d.Uint32())
	}
	d.name("gids")
	return d.End()
}
