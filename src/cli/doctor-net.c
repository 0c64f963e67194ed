// SPDX-License-Identifier: Apache-2.0
/* What egress needs of the host. Nothing here sends a packet. */
#include <errno.h>
#include <linux/bpf.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/doctor.h"
#include "cli/nameserver.h"
#include "cli/paths.h"
#include "cli/state.h"

/* include/uapi/linux/route.h, ipv6_route.h */
#define ROUTE_UP 0x0001ul
#define ROUTE_REJECT 0x0200ul

static void probe_gateway(struct probe_finding *f)
{
	_cleanup_free_ char *path = paths_program("airlock-gateway");

	if (!path)
		probe_say(f, PROBE_NOTE, "make build, or make install",
			  "airlock-gateway is not beside this program");
	else if (!getpwnam("airlock-gw"))
		probe_say(f, PROBE_NOTE,
			  "useradd --system --user-group --no-create-home airlock-gw",
			  "there is no user airlock-gw");
	else
		probe_say(f, PROBE_GOOD, NULL, "the program and the user airlock-gw exist");
}

static void probe_name_servers(struct probe_finding *f)
{
	_cleanup_free_ char *named = NULL;
	char list[NAMESERVER_LIST_MAX];
	struct err err;

	if (state_variable("SANDBOX_EGRESS_DNS", NULL, &named, &err) < 0)
		probe_say(f, PROBE_UNKNOWN, "run `airlock doctor` as root", "%.230s", err.text);
	else if (named)
		probe_say(f, PROBE_GOOD, NULL, "%.200s, as SANDBOX_EGRESS_DNS says", named);
	else if (nameserver_of_host(list, sizeof(list)))
		probe_say(f, PROBE_GOOD, NULL, "%.200s", list);
	else
		probe_say(f, PROBE_NOTE, "SANDBOX_EGRESS_DNS=<addresses>",
			  "the host has none but on loopback: repositories cannot be imported, "
			  "and a policy stops the start");
}

/* gateway/trust.h */
static void probe_certificates(struct probe_finding *f)
{
	static const char file[] = "/etc/ssl/certs/ca-certificates.crt";

	if (access(file, R_OK) == 0)
		probe_say(f, PROBE_GOOD, NULL, "%s", file);
	else
		probe_say(f, PROBE_NOTE, "apt-get install ca-certificates",
			  "%s cannot be read: repositories cannot be imported", file);
}

/* The smallest program of the kind that the launcher loads (launcher/catch.c). */
static void probe_all_ports(struct probe_finding *f)
{
	const struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = SK_PASS },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = {
		.prog_type = BPF_PROG_TYPE_SK_LOOKUP,
		.expected_attach_type = BPF_SK_LOOKUP,
		.insn_cnt = ARRAY_SIZE(program),
		.insns = (uint64_t)(uintptr_t)program,
		.license = (uint64_t)(uintptr_t) "Apache-2.0",
	};

	if (!probe_needs_root(f))
		return;
	if (syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)) >= 0)
		probe_say(f, PROBE_GOOD, NULL, "connects to other ports are reset and logged");
	else
		probe_say(f, PROBE_NOTE,
			  "allow the service bpf(2); a container or a filter around it may "
			  "withhold it",
			  "connects to other ports leave no event: %s", strerrordesc_np(errno));
}

/* proc(5): interface, destination, gateway, flags, 3 numbers, mask. */
static bool has_default_v4(void)
{
	FILE *routes = fopen("/proc/net/route", "re");
	char line[512];
	bool found = false;

	while (routes && !found && fgets(line, sizeof(line), routes)) {
		unsigned long destination, flags, mask;
		found = sscanf(line, "%*s %lx %*s %lx %*s %*s %*s %lx", &destination, &flags,
			       &mask) == 3 &&
			!destination && !mask && (flags & (ROUTE_UP | ROUTE_REJECT)) == ROUTE_UP;
	}
	if (routes)
		fclose(routes);
	return found;
}

/* Destination, its prefix, source, its prefix, next hop, 3 numbers, flags, interface. */
static bool has_default_v6(void)
{
	FILE *routes = fopen("/proc/net/ipv6_route", "re");
	char line[512], destination[40], interface[32];
	bool found = false;

	while (routes && !found && fgets(line, sizeof(line), routes)) {
		unsigned long prefix, flags;
		found = sscanf(line, "%39s %lx %*s %*s %*s %*s %*s %*s %lx %31s", destination,
			       &prefix, &flags, interface) == 4 &&
			!prefix && (flags & (ROUTE_UP | ROUTE_REJECT)) == ROUTE_UP &&
			strcmp(interface, "lo") != 0;
	}
	if (routes)
		fclose(routes);
	return found;
}

static void probe_way_out(struct probe_finding *f)
{
	bool v4 = has_default_v4(), v6 = has_default_v6();

	if (v4 || v6)
		probe_say(f, PROBE_GOOD, NULL, "default route: %s%s%s", v4 ? "IPv4" : "",
			  v4 && v6 ? ", " : "", v6 ? "IPv6" : "");
	else
		probe_say(f, PROBE_NOTE, "give the host a route, or leave the policy out",
			  "no default route, neither IPv4 nor IPv6");
}

/* docs/egress.md; launcher/net.c makes it so in each sandbox. */
static void probe_inside(struct probe_finding *f)
{
	probe_say(f, PROBE_GOOD, NULL,
		  "loopback alone; with egress also allowed names, by TLS: "
		  "through the proxy 127.0.0.1:3128, or port 443 of any address");
}

const struct probe doctor_net_probes[] = {
	{ "gateway", "the only process with a way out", false, probe_gateway },
	{ "name servers", "the gateway alone looks up allowed names and where imports come from",
	  false, probe_name_servers },
	{ "trusted certificates", "imports come from whom they say", false, probe_certificates },
	{ "all-ports catch", "every attempt to connect is logged", false, probe_all_ports },
	{ "way out", "read from the routing table; nothing is sent", false, probe_way_out },
	{ "inside a sandbox", "what code sees of the network", false, probe_inside },
};
const size_t n_doctor_net_probes = ARRAY_SIZE(doctor_net_probes);
