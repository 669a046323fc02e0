package server

import (
	"github.com/stag-rdma/stag/nfsdemo/nfs3"
	"github.com/stag-rdma/stag/xdr"
)

// fsStat is FSSTAT (RFC 1813 Section 3.3.18).
func (o *op) fsStat(d *xdr.Decoder) error {
	var args nfs3.FSStatArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.FSStatRes
	f, err := o.file(args.Handle)
	if err == nil {
		u, uerr := o.exp.FS.Usage()
		err = uerr
		res.TotalBytes, res.FreeBytes, res.AvailBytes = u.TotalBytes, u.FreeBytes, u.AvailBytes
		res.TotalFiles, res.FreeFiles, res.AvailFiles = u.TotalFiles, u.FreeFiles, u.AvailFiles
	}
	res.Status, res.Attr = o.status(err), f.opt()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// Choice: the numbers of FSINFO other than Config.MaxIO.
const (
	ioMult = 4096
	dtPref = 64 << 10
)

// fsInfo is FSINFO (RFC 1813 Section 3.3.19).
func (o *op) fsInfo(d *xdr.Decoder) error {
	var args nfs3.FSInfoArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.FSInfoRes
	f, err := o.file(args.Handle)
	if err == nil {
		io := uint32(o.s.cfg.MaxIO)
		res.RTMax, res.RTPref, res.RTMult = io, io, ioMult
		res.WTMax, res.WTPref, res.WTMult = io, io, ioMult
		res.DTPref = min(dtPref, io)
		res.MaxFileSize = o.exp.info.MaxFileSize
		res.TimeDelta = nfs3.Time{Nsec: 1}
		res.Properties = nfs3.PropLink | nfs3.PropSymlink | nfs3.PropHomogeneous | nfs3.PropCanSetTime
	}
	res.Status, res.Attr = o.status(err), f.opt()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}

// pathConf is PATHCONF (RFC 1813 Section 3.3.20).
func (o *op) pathConf(d *xdr.Decoder) error {
	var args nfs3.PathConfArgs
	if err := xdr.Decode(d, &args).Err(); err != nil {
		return err
	}
	var res nfs3.PathConfRes
	f, err := o.file(args.Handle)
	if err == nil {
		info := &o.exp.info
		res.LinkMax, res.NameMax = info.LinkMax, uint32(o.exp.nameMax())
		res.NoTrunc, res.ChownRestricted = true, true
		res.CaseInsensitive, res.CasePreserving = info.CaseFolding, true
	}
	res.Status, res.Attr = o.status(err), f.opt()
	o.c.Resp.Results = xdr.Encode(o.c.Resp.Results, &res)
	return nil
}
