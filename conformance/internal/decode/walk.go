package decode

import (
	"strings"

	"github.com/stag-rdma/stag/xdr"
)

// walker skips XDR items by a description, to find what follows them. The letters:
//
//	i q      4, 8 octets (integer, hyper)
//	V S      8, 16 octets (verifier; stateid, session or device)
//	o        opaque or string of variable length
//	D        the same, of the kind that may travel in a chunk (RFC 8267 Section 5)
//	*{x}     counted array of x
//	?{x}     x if the boolean before it is true
//	+{x}     list of x, each with a true boolean in front, ended by a false one
//	@{1 x|2 y|_ z}  x, y or z by the word before it
//	B F P C N W G   what macros says
//
// An item that the description does not allow is an error of the decoder.
type walker struct {
	d     xdr.Decoder
	moved func(n int) bool // reports whether the D of n octets at which d stands is in a chunk instead
}

// macros are the structures that many operations of NFSv4 share (RFC 7531, RFC 5662, RFC 7863).
var macros = map[byte]string{
	'B': "*{i}",                                               // bitmap4
	'F': "*{i}o",                                              // fattr4
	'P': "@{0 |1 ioii*{i}|6 ioo}",                             // callback_sec_parms4
	'C': "iiiiii*{i}",                                         // channel_attrs4
	'N': "@{1 o|2 o|3 oo}",                                    // netloc4
	'W': "*{S}qiV",                                            // write_response4
	'G': "@{0 |1 Siiiio|2 Si@{1 q|2 ii}iiio|3 @{1 i|2 i|_ }}", // open_delegation4
}

// run skips what desc describes.
func (w *walker) run(desc string) {
	for i := 0; i < len(desc) && w.d.Err() == nil; i++ {
		c := desc[i]
		if w.item(c) {
			continue
		}
		x := braced(desc[i+1:])
		i += len(x) + 2
		switch c {
		case '*':
			for n := w.d.Uint32(); n > 0 && w.d.Err() == nil; n-- {
				w.run(x)
			}
		case '?':
			if w.d.Bool() {
				w.run(x)
			}
		case '+':
			for w.d.Bool() {
				w.run(x)
			}
		case '@':
			w.union(x)
		}
	}
}

// item skips the item that one letter stands for; it returns false for a letter with braces.
func (w *walker) item(c byte) bool {
	switch c {
	case 'i':
		w.d.Skip(4)
	case 'q', 'V':
		w.d.Skip(8)
	case 'S':
		w.d.Skip(16)
	case 'o':
		w.opaque(int64(w.d.Uint32()))
	case 'D':
		if n := w.d.Uint32(); w.moved == nil || !w.moved(int(n)) {
			w.opaque(int64(n))
		}
	case '*', '?', '+', '@':
		return false
	default:
		w.run(macros[c])
	}
	return true
}

// opaque skips n octets and their roundup.
func (w *walker) opaque(n int64) {
	if n = (n + 3) &^ 3; n > int64(w.d.Len()) {
		w.d.Fail(xdr.ErrShort)
		return
	}
	w.d.Skip(int(n))
}

// union skips the arm that the next word selects.
func (w *walker) union(arms string) {
	tag := decimal(w.d.Uint32())
	for arms != "" {
		arm := topLevel(arms)
		arms = strings.TrimPrefix(arms[len(arm):], "|")
		label, x, _ := strings.Cut(arm, " ")
		if label == tag || label == "_" {
			w.run(x)
			return
		}
	}
	w.d.Fail(xdr.ErrRange)
}

// braced returns what stands between the brace that s begins with and its partner.
func braced(s string) string {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[1:i]
			}
		}
	}
	return ""
}

// topLevel returns s up to the first bar that is in no braces.
func topLevel(s string) string {
	depth := 0
	for i := range len(s) {
		switch {
		case s[i] == '{':
			depth++
		case s[i] == '}':
			depth--
		case s[i] == '|' && depth == 0:
			return s[:i]
		}
	}
	return s
}
