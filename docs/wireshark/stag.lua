-- Names for what Wireshark 4.0 does not name of iWARP: Immediate Data and Swap of RFC 7306
-- and its drafts, Flush, Verify and Atomic Write of draft-talpey-rdma-commit-01, and the
-- capability block that two stag peers exchange in MPA's private data.
--
--   tshark -X lua_script:docs/wireshark/stag.lua -r trace.pcapng
--
-- It is a post-dissector: Wireshark's own dissectors find MPA, squeeze markers out and
-- check CRCs; it reads the same octets a second time. They take the fifth bit of the
-- commit draft's last two opcodes for a reserved one, and so still say "Write" or "Read
-- Request" in the tree, and "Malformed" of an Atomic Write Response.

local stag = Proto("stag", "stag RDMA extensions")

local opcodes = {
  [0x00] = "Write", [0x01] = "Read Request", [0x02] = "Read Response", [0x03] = "Send",
  [0x04] = "Send with Invalidate", [0x05] = "Send with SE", [0x06] = "Send with SE and Invalidate",
  [0x07] = "Terminate", [0x08] = "Immediate Data", [0x09] = "Immediate Data with SE",
  [0x0a] = "Atomic Request", [0x0b] = "Atomic Response", [0x0c] = "Flush Request",
  [0x0d] = "Flush Response", [0x0e] = "Verify Request", [0x0f] = "Verify Response",
  [0x10] = "Atomic Write Request", [0x11] = "Atomic Write Response",
}
local atomics = { [0] = "FetchAdd", [1] = "Swap", [2] = "CmpSwap" }

local f = stag.fields
f.opcode = ProtoField.uint8("stag.opcode", "OpCode", base.HEX, opcodes)
f.msn = ProtoField.uint32("stag.msn", "Message sequence number")
f.data = ProtoField.bytes("stag.data", "Data")
f.stag = ProtoField.uint32("stag.stag", "Target STag", base.HEX)
f.len = ProtoField.uint32("stag.len", "Target length")
f.to = ProtoField.uint64("stag.to", "Target tagged offset", base.HEX)
f.flags = ProtoField.uint32("stag.flags", "Flush flags", base.HEX)
f.persistent = ProtoField.bool("stag.flags.p", "Persistent", 32, nil, 0x01)
f.visible = ProtoField.bool("stag.flags.g", "Globally visible", 32, nil, 0x02)
f.hash = ProtoField.bytes("stag.hash", "Hash")
f.atomic = ProtoField.uint32("stag.atomic.opcode", "Atomic operation", base.DEC, atomics, 0x0f)
f.id = ProtoField.uint32("stag.atomic.id", "Request identifier")
f.value = ProtoField.uint64("stag.atomic.value", "Value", base.HEX)
f.mask = ProtoField.uint64("stag.atomic.mask", "Mask", base.HEX)
f.compare = ProtoField.uint64("stag.atomic.compare", "Compare value", base.HEX)
f.compare_mask = ProtoField.uint64("stag.atomic.compare_mask", "Compare mask", base.HEX)
f.cap_version = ProtoField.uint8("stag.capability.version", "Version")
f.cap_mulpdu = ProtoField.uint16("stag.capability.mulpdu", "Largest ULPDU")
f.cap_interleave = ProtoField.bool("stag.capability.interleave", "Sends between segments", 32, nil, 0x01)
f.cap_7306 = ProtoField.bool("stag.capability.rfc7306", "RFC 7306", 32, nil, 0x02)
f.cap_swap = ProtoField.bool("stag.capability.swap", "Swap", 32, nil, 0x04)
f.cap_commit = ProtoField.bool("stag.capability.commit", "Commit draft", 32, nil, 0x08)

local short = ProtoExpert.new("stag.short", "Message too short", expert.group.MALFORMED, expert.severity.ERROR)
stag.experts = { short }

-- What Wireshark has found, one value per FPDU of the packet, in order.
local ddp = Field.new("iwarp_ddp_rdmap")
local ulpdu_length = Field.new("iwarp_mpa.ulpdulength")
local private_data = Field.new("iwarp_mpa.privatedata")

local untagged_header = 18 -- octets, RFC 5041 Section 4.3

-- The head of every request of the commit draft: STag, length, tagged offset.
local function target(p, t)
  t:add(f.stag, p(0, 4))
  t:add(f.len, p(4, 4))
  t:add(f.to, p(8, 8))
end

-- What follows the header, by opcode: the least octets, and what they say. p is the
-- payload.
local bodies = {
  [0x08] = { 8, function(p, t) t:add(f.data, p(0, 8)) end },
  [0x0a] = { 52, function(p, t)
    t:add(f.atomic, p(0, 4))
    t:add(f.id, p(4, 4))
    t:add(f.stag, p(8, 4))
    t:add(f.to, p(12, 8))
    t:add(f.value, p(20, 8))
    t:add(f.mask, p(28, 8))
    t:add(f.compare, p(36, 8))
    t:add(f.compare_mask, p(44, 8))
    local op = p(3, 1):bitfield(4, 4)
    t:append_text(", " .. (atomics[op] or ("operation " .. op)))
  end },
  [0x0b] = { 12, function(p, t)
    t:add(f.id, p(0, 4))
    t:add(f.value, p(4, 8))
  end },
  [0x0c] = { 20, function(p, t)
    target(p, t)
    local flags = t:add(f.flags, p(16, 4))
    flags:add(f.persistent, p(16, 4))
    flags:add(f.visible, p(16, 4))
  end },
  [0x0d] = { 0, function() end },
  [0x0e] = { 16, function(p, t)
    target(p, t)
    if p:len() > 16 then
      t:add(f.hash, p(16))
      t:append_text(", compare")
    end
  end },
  [0x0f] = { 1, function(p, t) t:add(f.hash, p(0)) end },
  [0x10] = { 24, function(p, t)
    target(p, t)
    t:add(f.data, p(16, 8))
  end },
  [0x11] = { 0, function() end },
}
bodies[0x09] = bodies[0x08]

-- The opcode in an RDMAP control octet: four bits in a tagged segment, else five.
local function opcode_of(ulpdu)
  local control = ulpdu(1, 1):uint()
  if ulpdu(0, 1):bitfield(0) == 1 then
    return control % 16
  end
  return control % 32
end

local function message(ulpdu, opcode, tree)
  local t = tree:add(stag, ulpdu, opcodes[opcode])
  t:add(f.opcode, ulpdu(1, 1), opcode)
  if ulpdu:len() < untagged_header then
    t:add_proto_expert_info(short)
    return
  end
  t:add(f.msn, ulpdu(10, 4))
  local least, read = bodies[opcode][1], bodies[opcode][2]
  local n = ulpdu:len() - untagged_header
  if n < least then
    t:add_proto_expert_info(short)
  elseif n == 0 then
    read(nil, t)
  else
    read(ulpdu(untagged_header, n), t)
  end
end

-- The last 12 octets of the private data: "stag", version, length, largest ULPDU,
-- features.
local function capability(info, tree)
  local n = info.len
  if n < 12 or info.range(n - 12, 4):string() ~= "stag" then
    return
  end
  local block = info.range(n - 12, 12)
  local t = tree:add(stag, block, "stag capability block")
  t:add(f.cap_version, block(4, 1))
  t:add(f.cap_mulpdu, block(6, 2))
  for _, feature in ipairs({ f.cap_interleave, f.cap_7306, f.cap_swap, f.cap_commit }) do
    t:add(feature, block(8, 4))
  end
end

-- info_column says what is in the packet, where Wireshark's own text would be wrong.
local function info_column(pinfo, names)
  local text, run = {}, 1
  for i, name in ipairs(names) do
    if names[i + 1] == name then
      run = run + 1
    else
      text[#text + 1] = run > 1 and (run .. " x " .. name) or name
      run = 1
    end
  end
  pinfo.cols.info = string.format("%d > %d %s", pinfo.src_port, pinfo.dst_port, table.concat(text, ", "))
end

function stag.dissector(_, pinfo, tree)
  for _, info in ipairs({ private_data() }) do
    capability(info, tree)
  end
  local lengths = { ulpdu_length() }
  local names, ours = {}, false
  for i, info in ipairs({ ddp() }) do
    local length = lengths[i] and lengths[i].value
    if length and length >= 2 and info.source:len() >= info.offset + length then
      local ulpdu = info.source:range(info.offset, length)
      local opcode = opcode_of(ulpdu)
      names[#names + 1] = opcodes[opcode] or ("Unknown " .. opcode)
      if bodies[opcode] then
        ours = true
        message(ulpdu, opcode, tree)
      end
    end
  end
  if ours then
    info_column(pinfo, names)
  end
end

register_postdissector(stag)
