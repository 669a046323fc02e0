package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is the value of a flag in octets: a number, or one with a unit, such as 64M.
type size int64

// sizeUnits are the units, as binary powers.
const sizeUnits = "KMGT"

// String writes s with the largest unit that leaves no fraction.
func (s *size) String() string {
	n, unit := int64(*s), ""
	for _, u := range sizeUnits {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, string(u)
	}
	return strconv.FormatInt(n, 10) + unit
}

// errSize says what a size looks like.
var errSize = errors.New("want octets, or a number with K, M, G or T, for example 64M or 1G")

// Set reads 65536, 64K, 64KiB or 64k.
func (s *size) Set(text string) error {
	digits := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I")
	shift := 0
	if n := len(digits); n > 0 {
		if i := strings.IndexByte(sizeUnits, digits[n-1]); i >= 0 {
			digits, shift = digits[:n-1], 10*(i+1)
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return errSize
	}
	if err != nil || n > math.MaxInt64>>shift || n < math.MinInt64>>shift {
		return fmt.Errorf("larger than %d octets", int64(math.MaxInt64))
	}
	*s = size(n << shift)
	return nil
}

// Type is the name of the value in the help.
func (*size) Type() string { return "size" }

// sizeRange is the range of a flag that is a size.
type sizeRange struct {
	flag           string
	n, least, most size
	unlimited      bool // by -1
}

// checkSizes refuses the first size that is out of range. 0 is the default.
func checkSizes(all ...sizeRange) error {
	for _, s := range all {
		if s.n == 0 || s.unlimited && s.n == -1 || s.n >= s.least && s.n <= s.most {
			continue
		}
		or := "or 0 for the default"
		if s.unlimited {
			or = "0 for the default, or -1 for no limit"
		}
		return usagef("--%s %s: want %s to %s, %s", s.flag, s.n.String(), s.least.String(), s.most.String(), or)
	}
	return nil
}
