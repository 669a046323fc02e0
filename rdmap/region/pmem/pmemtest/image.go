package pmemtest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Image is the content of the medium after one crash.
type Image struct {
	s      *Snapshot
	grain  Grain
	units  []unit
	choice []int // by unit: the index of its content
	octets []byte
}

// image returns the durable image; set turns it into others.
func (s *Snapshot) image(g Grain) *Image {
	us := s.units(g)
	return &Image{s: s, grain: g, units: us, choice: make([]int, len(us)), octets: slices.Clone(s.durable)}
}

// Octets lends the octets of the image until the next one is made. They must not be changed.
func (im *Image) Octets() []byte { return im.octets }

// Open returns a Sim that has restarted after this crash, with the options of the Sim that crashed.
// It copies the image.
func (im *Image) Open() *Sim { return OpenSim(im.octets, &im.s.o) }

// String names the image among those of its snapshot: by the grain, and, for each unit whose content
// is not the durable one, by the offset of the unit and the number of its content. A test prints it
// together with the seed of its workload, and Snapshot.Image finds the image again.
func (im *Image) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", int(im.grain))
	for k, c := range im.choice {
		if c != 0 {
			fmt.Fprintf(&b, " %d=%d", im.units[k].off, c)
		}
	}
	return b.String()
}

// Image returns the image with a name that Image.String has returned.
func (s *Snapshot) Image(name string) (*Image, error) {
	grain, rest, ok := strings.Cut(name, ":")
	g, err := strconv.Atoi(grain)
	if !ok || err != nil || !slices.Contains([]Grain{Word, Line, Sector}, Grain(g)) {
		return nil, fmt.Errorf("pmemtest: image %q has no grain", name)
	}
	im := s.image(Grain(g))
	for f := range strings.FieldsSeq(rest) {
		if err := im.parse(f); err != nil {
			return nil, fmt.Errorf("pmemtest: image %q: unit %q: %w", name, f, err)
		}
	}
	return im, nil
}

// parse applies one part of a name, "offset=number".
func (im *Image) parse(s string) error {
	a, b, _ := strings.Cut(s, "=")
	off, err1 := strconv.Atoi(a)
	c, err2 := strconv.Atoi(b)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	k := slices.IndexFunc(im.units, func(u unit) bool { return u.off == off })
	if k < 0 || c < 0 || c >= len(im.units[k].contents) {
		return errors.New("not in this snapshot")
	}
	im.set(k, c)
	return nil
}

// set gives unit k its content c.
func (im *Image) set(k, c int) *Image {
	if im.choice[k] != c {
		im.choice[k] = c
		copy(im.octets[im.units[k].off:], im.units[k].contents[c])
	}
	return im
}

// reset gives all units their durable content, or their newest one.
func (im *Image) reset(newest bool) *Image {
	for k, u := range im.units {
		c := 0
		if newest {
			c = u.newest
		}
		im.set(k, c)
	}
	return im
}

// advance counts to the next image, the first unit fastest. It returns false after the last image.
func (im *Image) advance() bool {
	for k, u := range im.units {
		if im.choice[k]+1 < len(u.contents) {
			im.set(k, im.choice[k]+1)
			return true
		}
		im.set(k, 0)
	}
	return false
}
