// SPDX-License-Identifier: Apache-2.0
#include "launcher/catch.h"

#include <errno.h>
#include <linux/bpf.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

/* Places in the program that are jumped to. */
enum { V6 = 13, STEER = 22, PASS = 36 };

#define CODE(op, dst, src, offset, value) \
	((struct bpf_insn){ .code = (op), \
			    .dst_reg = (dst), \
			    .src_reg = (src), \
			    .off = (offset), \
			    .imm = (value) })
#define COPY(dst, src) CODE(BPF_ALU64 | BPF_MOV | BPF_X, dst, src, 0, 0)
#define SET(dst, value) CODE(BPF_ALU64 | BPF_MOV | BPF_K, dst, 0, 0, value)
#define OR(dst, src) CODE(BPF_ALU64 | BPF_OR | BPF_X, dst, src, 0, 0)
#define HOST_ORDER(dst) CODE(BPF_ALU | BPF_END | BPF_TO_BE, dst, 0, 0, 32)
#define FIELD(dst, field) \
	CODE(BPF_LDX | BPF_MEM | BPF_W, dst, 6, offsetof(struct bpf_sk_lookup, field), 0)
#define IF_EQ(at, dst, value, to) CODE(BPF_JMP | BPF_JEQ | BPF_K, dst, 0, (to) - (at)-1, value)
#define IF_NE(at, dst, value, to) CODE(BPF_JMP | BPF_JNE | BPF_K, dst, 0, (to) - (at)-1, value)
#define GO(at, to) CODE(BPF_JMP | BPF_JA, 0, 0, (to) - (at)-1, 0)
#define CALL(function) CODE(BPF_JMP | BPF_CALL, 0, 0, 0, function)

static long bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static uint64_t address(const void *p)
{
	return (uint64_t)(uintptr_t)p;
}

static int load_program(int map)
{
	const struct bpf_insn program[] = {
		[0] = COPY(6, 1), /* the context; the arguments of calls are lost with each */
		[1] = FIELD(2, protocol),
		[2] = IF_NE(2, 2, IPPROTO_TCP, PASS),
		[3] = FIELD(2, local_port), /* in host order, unlike the addresses */
		[4] = IF_EQ(4, 2, 53, PASS),
		[5] = IF_EQ(5, 2, 80, PASS),
		[6] = FIELD(2, family),
		[7] = IF_NE(7, 2, AF_INET, V6),
		[8] = FIELD(2, local_ip4),
		[9] = HOST_ORDER(2),
		[10] = CODE(BPF_ALU64 | BPF_RSH | BPF_K, 2, 0, 0, 24),
		[11] = IF_EQ(11, 2, 127, PASS),
		[12] = GO(12, STEER),
		[V6] = FIELD(2, local_ip6[0]),
		[14] = FIELD(3, local_ip6[1]),
		[15] = OR(2, 3),
		[16] = FIELD(3, local_ip6[2]),
		[17] = OR(2, 3),
		[18] = IF_NE(18, 2, 0, STEER),
		[19] = FIELD(2, local_ip6[3]),
		[20] = HOST_ORDER(2),
		[21] = IF_EQ(21, 2, 1, PASS), /* ::1 */
		[STEER] = CODE(BPF_ST | BPF_MEM | BPF_W, 10, 0, -4, 0),
		[23] = CODE(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map),
		[24] = CODE(0, 0, 0, 0, 0), /* the upper half of the number before */
		[25] = COPY(2, 10),
		[26] = CODE(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -4),
		[27] = CALL(BPF_FUNC_map_lookup_elem),
		/* Its listener is closed: as without a catch, the kernel refuses. */
		[28] = IF_EQ(28, 0, 0, PASS),
		[29] = COPY(7, 0),
		[30] = COPY(1, 6),
		[31] = COPY(2, 7),
		[32] = SET(3, 0),
		[33] = CALL(BPF_FUNC_sk_assign),
		[34] = COPY(1, 7),
		[35] = CALL(BPF_FUNC_sk_release),
		[PASS] = SET(0, SK_PASS),
		[37] = CODE(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SK_LOOKUP,
		.expected_attach_type = BPF_SK_LOOKUP,
		.insn_cnt = ARRAY_SIZE(program),
		.insns = address(program),
		.license = address("Apache-2.0"),
	};

	return (int)bpf(BPF_PROG_LOAD, &attr);
}

static int catch_open(struct catch *c)
{
	union bpf_attr attr = { .map_type = BPF_MAP_TYPE_SOCKMAP,
				.key_size = sizeof(uint32_t),
				.value_size = sizeof(uint64_t),
				.max_entries = 1 };
	_cleanup_fd_ int map = (int)bpf(BPF_MAP_CREATE, &attr);

	if (map < 0)
		return -errno;
	c->program = load_program(map);
	if (c->program < 0)
		return -errno;
	c->map = take_fd(&map);
	return 0;
}

bool catch_works(void)
{
	struct catch c = CATCH_NONE;
	bool works = catch_open(&c) == 0;

	fd_close(&c.map);
	fd_close(&c.program);
	return works;
}

int catch_attach(struct catch *c, int network, int listener, int *ret_link, struct err *err)
{
	uint32_t key = 0;
	uint64_t value = (uint64_t)listener;
	union bpf_attr update = { .key = address(&key), .value = address(&value) };
	union bpf_attr link = { .link_create = { .target_fd = (uint32_t)network,
						 .attach_type = BPF_SK_LOOKUP } };

	if (c->program < 0 && catch_open(c) < 0)
		return err_errno(err, "cannot load the all-ports catch");
	update.map_fd = (uint32_t)c->map;
	link.link_create.prog_fd = (uint32_t)c->program;
	if (bpf(BPF_MAP_UPDATE_ELEM, &update) < 0)
		return err_errno(err, "cannot give the all-ports catch its listener");
	long fd = bpf(BPF_LINK_CREATE, &link);
	if (fd < 0)
		return err_errno(err, "cannot attach the all-ports catch");
	*ret_link = (int)fd;
	return 0;
}
