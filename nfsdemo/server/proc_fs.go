package server

import "github.com/stag-rdma/stag/nfsdemo/nfs3"

// fsStat is FSSTAT (RFC 1813 Section 3.3.18).
func (o *op) fsStat(args *nfs3.FSStatArgs, res *nfs3.FSStatRes) error {
	f, err := o.file(args.Handle)
	if res.Attr = f.opt(); err != nil {
		return err
	}
	u, err := o.exp.FS.Usage()
	res.TotalBytes, res.FreeBytes, res.AvailBytes = u.TotalBytes, u.FreeBytes, u.AvailBytes
	res.TotalFiles, res.FreeFiles, res.AvailFiles = u.TotalFiles, u.FreeFiles, u.AvailFiles
	return err
}

// Choice: the numbers of FSINFO other than Config.MaxIO.
const (
	ioMult = 4096
	dtPref = 64 << 10
)

// fsInfo is FSINFO (RFC 1813 Section 3.3.19).
func (o *op) fsInfo(args *nfs3.FSInfoArgs, res *nfs3.FSInfoRes) error {
	f, err := o.file(args.Handle)
	if res.Attr = f.opt(); err != nil {
		return err
	}
	io := uint32(o.s.cfg.MaxIO)
	res.RTMax, res.RTPref, res.RTMult = io, io, ioMult
	res.WTMax, res.WTPref, res.WTMult = io, io, ioMult
	res.DTPref = min(dtPref, io)
	res.MaxFileSize = o.exp.info.MaxFileSize
	res.TimeDelta = nfs3.Time{Nsec: 1}
	res.Properties = nfs3.PropLink | nfs3.PropSymlink | nfs3.PropHomogeneous | nfs3.PropCanSetTime
	return nil
}

// pathConf is PATHCONF (RFC 1813 Section 3.3.20).
func (o *op) pathConf(args *nfs3.PathConfArgs, res *nfs3.PathConfRes) error {
	f, err := o.file(args.Handle)
	if res.Attr = f.opt(); err != nil {
		return err
	}
	info := &o.exp.info
	res.LinkMax, res.NameMax = info.LinkMax, uint32(o.exp.nameMax())
	res.NoTrunc, res.ChownRestricted = true, true
	res.CaseInsensitive, res.CasePreserving = info.CaseFolding, true
	return nil
}
