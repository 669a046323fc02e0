package bench

import (
	"github.com/stag-rdma/stag/internal/measure"
)

// plotSizes are the sizes of a write in octets. The largest fits inline.
var plotSizes = []int{512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10}

// Plot measures the latency of a durable write without a disk, by size: pulled by read chunk,
// sent inline, and pushed. Each point is the median of o.Rounds alternating rounds.
func Plot(p Peer, o *Options) (*measure.Chart, error) {
	opt := o.fill()
	dialers := []dialer{
		byWrite(p.Sim.NFS, pulledConfig(), false), byWrite(p.Sim.NFS, nil, false), newLogs(p.Sim.Push).byPush(false),
	}
	c := &measure.Chart{
		Title: "A durable write, no disk: latency against size", XName: "octets", X: plotSizes,
		Lines: []measure.Line{
			{Name: "WRITE pulled, us", Color: measure.Orange},
			{Name: "inline, us", Color: measure.Green},
			{Name: "push, us", Color: measure.Blue},
		},
	}
	for i, size := range plotSizes {
		rounds := make([][]float64, len(dialers))
		for round := range opt.Rounds {
			if opt.Progress != nil {
				opt.Progress(i*opt.Rounds+round, len(plotSizes)*opt.Rounds)
			}
			for j, d := range dialers {
				us, err := latency(d, opt.Writes/2, size)()
				if err != nil {
					return nil, err
				}
				rounds[j] = append(rounds[j], us)
			}
		}
		for j := range dialers {
			c.Lines[j].Y = append(c.Lines[j].Y, measure.Median(rounds[j]))
		}
	}
	return c, nil
}
