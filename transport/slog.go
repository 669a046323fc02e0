package transport

import (
	"context"
	"log/slog"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// SlogLogger returns a Logger for [Config] and the like whose lines go to h, so that programs which log
// with log/slog need not know another library.
func SlogLogger(h slog.Handler) *zap.Logger { return zap.New(slogCore{h}) }

// slogCore passes the lines of a zap.Logger on.
type slogCore struct{ h slog.Handler }

var _ zapcore.Core = slogCore{}

// slogLevels are the levels of slog; zap's above error have no other names there.
var slogLevels = map[zapcore.Level]slog.Level{
	zapcore.DebugLevel: slog.LevelDebug, zapcore.InfoLevel: slog.LevelInfo, zapcore.WarnLevel: slog.LevelWarn,
}

func slogLevel(l zapcore.Level) slog.Level {
	if s, ok := slogLevels[l]; ok {
		return s
	}
	return slog.LevelError
}

// Enabled implements zapcore.LevelEnabler.
func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.h.Enabled(context.Background(), slogLevel(l))
}

// With implements zapcore.Core.
func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.h.WithAttrs(slogAttrs(fields))}
}

// Check implements zapcore.Core.
func (c slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), e.Message, e.Caller.PC)
	r.AddAttrs(slogAttrs(fields)...)
	return c.h.Handle(context.Background(), r)
}

// Sync implements zapcore.Core. Handlers of slog do not buffer.
func (c slogCore) Sync() error { return nil }

// slogAttrs converts fields, in their order.
func slogAttrs(fields []zapcore.Field) []slog.Attr {
	attrs := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			attrs = append(attrs, slog.Any(f.Key, err)) // zap would add the verbose form of some errors
			continue
		}
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		for k, v := range enc.Fields {
			attrs = append(attrs, slog.Any(k, v))
		}
	}
	return attrs
}
