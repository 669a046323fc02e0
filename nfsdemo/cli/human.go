package cli

import (
	"fmt"
	"io/fs"
	"strconv"
	"time"
)

// octets formats a count for people: exact below 10 KiB, otherwise three digits and a binary
// unit.
func octets(n uint64) string {
	if n < 10<<10 {
		return strconv.FormatUint(n, 10)
	}
	f := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		f /= 1024
		switch {
		case f < 9.995:
			return fmt.Sprintf("%.2f %s", f, unit)
		case f < 99.95:
			return fmt.Sprintf("%.1f %s", f, unit)
		case f < 1023.5:
			return fmt.Sprintf("%.0f %s", f, unit)
		}
	}
	return fmt.Sprintf("%.0f EiB", f/1024)
}

// modeString formats mode bits as ls -l does.
func modeString(m fs.FileMode) string {
	b := []byte("-rwxrwxrwx")
	for i, bit := 0, fs.FileMode(0o400); i < 9; i, bit = i+1, bit>>1 {
		if m&bit == 0 {
			b[i+1] = '-'
		}
	}
	special := func(i int, set fs.FileMode, with, without byte) {
		switch {
		case m&set == 0:
		case b[i] == 'x':
			b[i] = with
		default:
			b[i] = without
		}
	}
	special(3, fs.ModeSetuid, 's', 'S')
	special(6, fs.ModeSetgid, 's', 'S')
	special(9, fs.ModeSticky, 't', 'T')
	b[0] = typeLetter(m)
	return string(b)
}

// typeLetter is the first letter of ls -l.
func typeLetter(m fs.FileMode) byte {
	switch {
	case m.IsDir():
		return 'd'
	case m&fs.ModeSymlink != 0:
		return 'l'
	case m&fs.ModeNamedPipe != 0:
		return 'p'
	case m&fs.ModeSocket != 0:
		return 's'
	case m&fs.ModeCharDevice != 0:
		return 'c'
	case m&fs.ModeDevice != 0:
		return 'b'
	}
	return '-'
}

// typeName is the word that stat prints.
func typeName(m fs.FileMode) string {
	switch typeLetter(m) {
	case 'd':
		return "directory"
	case 'l':
		return "symbolic link"
	case 'p':
		return "named pipe"
	case 's':
		return "socket"
	case 'c':
		return "character device"
	case 'b':
		return "block device"
	}
	return "regular file"
}

// listTime formats a time as ls -l does: with the year instead of the hour if it is more than
// half a year from now.
func listTime(t, now time.Time) string {
	const halfYear = 182 * 24 * time.Hour
	if d := now.Sub(t); d > halfYear || d < -halfYear {
		return t.Format("Jan _2  2006")
	}
	return t.Format("Jan _2 15:04")
}

// duration formats a time for tables: three digits.
func duration(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d.Microseconds())
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// plural returns "1 file", "2 files".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
