// The beginning: the first connection with a violation, or else the first.

view.conn = Math.max(0, data.conns.findIndex((c) => c.marks.length > 0));
view.rows = connection().rows;
drawSummary();
tell('conn');
tell('rows');
follow();
ladder.focus();
