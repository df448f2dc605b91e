// Cells of a Lattice ECP5 as the simulation of a netlist needs them, from their data sheet.

module LUT4(input A, B, C, D, output Z);
  parameter [15:0] INIT = 0;
  assign Z = INIT[{D, C, B, A}];
endmodule

module PFUMX(input ALUT, BLUT, C0, output Z);
  assign Z = C0 ? ALUT : BLUT;
endmodule

module L6MUX21(input D0, D1, SD, output Z);
  assign Z = SD ? D1 : D0;
endmodule

// Two bits of a carry chain.
module CCU2C(input CIN, A0, B0, C0, D0, A1, B1, C1, D1, output S0, S1, COUT);
  parameter [15:0] INIT0 = 0, INIT1 = 0;
  parameter INJECT1_0 = "YES", INJECT1_1 = "YES";
  wire four0 = INIT0[{D0, C0, B0, A0}];
  wire four1 = INIT1[{D1, C1, B1, A1}];
  wire two0 = INIT0[{2'b00, B0, A0}];
  wire two1 = INIT1[{2'b00, B1, A1}];
  wire chained0 = INJECT1_0 == "NO";
  wire chained1 = INJECT1_1 == "NO";
  wire carry0 = CIN & chained0;
  wire middle = four0 ? carry0 : two0 & chained0;
  wire carry1 = middle & chained1;
  assign S0 = four0 ^ carry0;
  assign S1 = four1 ^ carry1;
  assign COUT = four1 ? carry1 : two1 & chained1;
endmodule

// With a synchronous set or reset, over the enable or under it.
module TRELLIS_FF(input CLK, LSR, CE, DI, M, output reg Q);
  parameter GSR = "ENABLED", CEMUX = "1", CLKMUX = "CLK", LSRMUX = "LSR";
  parameter REGSET = "RESET", SRMODE = "LSR_OVER_CE", LSRONMUX = "LSRMUX";
  wire enabled = CEMUX == "1" || (CEMUX == "INV" ? ~CE : CE);
  wire sets = LSRMUX == "INV" ? ~LSR : LSR;
  initial begin
    Q = REGSET == "SET";
    if (CLKMUX != "CLK") $fatal(1, "TRELLIS_FF: no model of CLKMUX %s", CLKMUX);
  end
  always @(posedge CLK)
    if (sets) Q <= REGSET == "SET";
    else if (enabled) Q <= DI;
endmodule

// 16 words of 4 bits, read in the same cycle.
module TRELLIS_DPR16X4(input [3:0] DI, WAD, RAD, input WRE, WCK, output [3:0] DO);
  parameter WCKMUX = "WCK", WREMUX = "WRE";
  parameter [63:0] INITVAL = 0;
  reg [3:0] words [0:15];
  integer k;
  initial for (k = 0; k < 16; k = k + 1) words[k] = 0;
  always @(posedge WCK) if (WREMUX == "INV" ? ~WRE : WRE) words[WAD] <= DI;
  assign DO = words[RAD];
endmodule

// Block RAM of 512 words of 36 bits: written on port A, whose lowest address bits enable bytes of
// 9 bits, read on port B.
module DP16KD(
  input CLKA, CLKB, CEA, CEB, OCEA, OCEB, WEA, WEB, RSTA, RSTB,
  input CSA0, CSA1, CSA2, CSB0, CSB1, CSB2,
  input ADA0, ADA1, ADA2, ADA3, ADA4, ADA5, ADA6, ADA7, ADA8, ADA9, ADA10, ADA11, ADA12, ADA13,
  input ADB0, ADB1, ADB2, ADB3, ADB4, ADB5, ADB6, ADB7, ADB8, ADB9, ADB10, ADB11, ADB12, ADB13,
  input DIA0, DIA1, DIA2, DIA3, DIA4, DIA5, DIA6, DIA7, DIA8,
  input DIA9, DIA10, DIA11, DIA12, DIA13, DIA14, DIA15, DIA16, DIA17,
  input DIB0, DIB1, DIB2, DIB3, DIB4, DIB5, DIB6, DIB7, DIB8,
  input DIB9, DIB10, DIB11, DIB12, DIB13, DIB14, DIB15, DIB16, DIB17,
  output DOA0, DOA1, DOA2, DOA3, DOA4, DOA5, DOA6, DOA7, DOA8,
  output DOA9, DOA10, DOA11, DOA12, DOA13, DOA14, DOA15, DOA16, DOA17,
  output DOB0, DOB1, DOB2, DOB3, DOB4, DOB5, DOB6, DOB7, DOB8,
  output DOB9, DOB10, DOB11, DOB12, DOB13, DOB14, DOB15, DOB16, DOB17
);
  parameter DATA_WIDTH_A = 18, DATA_WIDTH_B = 18;
  parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG";
  parameter CLKAMUX = "CLKA", CLKBMUX = "CLKB", WRITEMODE_A = "NORMAL", WRITEMODE_B = "NORMAL";
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", GSR = "ENABLED";
  parameter RESETMODE = "SYNC", ASYNC_RESET_RELEASE = "SYNC";
  reg [35:0] words [0:511];
  reg [35:0] read;
  wire [8:0] to = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5};
  wire [8:0] from = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5};
  wire [3:0] bytes = {ADA3, ADA2, ADA1, ADA0};
  wire [35:0] data = {
    DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9,
    DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2, DIB1, DIB0,
    DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9,
    DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2, DIA1, DIA0
  };
  integer k;
  initial begin
    if (DATA_WIDTH_A != 36 || DATA_WIDTH_B != 36 || REGMODE_B != "NOREG")
      $fatal(1, "DP16KD: a model of 36 bits without output register only");
    read = 0;
    for (k = 0; k < 512; k = k + 1) words[k] = 0;
  end
  always @(posedge CLKA)
    for (k = 0; k < 4; k = k + 1)
      if (CEA & WEA & bytes[k]) words[to][9 * k +: 9] <= data[9 * k +: 9];
  always @(posedge CLKB) if (CEB) read <= words[from];
  assign {
    DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9,
    DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2, DOB1, DOB0,
    DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9,
    DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2, DOA1, DOA0
  } = read;
endmodule

// A multiplier without registers; the third factor is that of a pre-adder, which it has not.
module MULT18X18D(
  input SIGNEDA, SIGNEDB, SOURCEA, SOURCEB,
  input A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16, A17,
  input B0, B1, B2, B3, B4, B5, B6, B7, B8, B9, B10, B11, B12, B13, B14, B15, B16, B17,
  input C0, C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11, C12, C13, C14, C15, C16, C17,
  output P0, P1, P2, P3, P4, P5, P6, P7, P8, P9, P10, P11, P12, P13, P14, P15, P16, P17,
  P18, P19, P20, P21, P22, P23, P24, P25, P26, P27, P28, P29, P30, P31, P32, P33, P34, P35
);
  wire signed [18:0] a = {
    SIGNEDA & A17,
    A17, A16, A15, A14, A13, A12, A11, A10, A9,
    A8, A7, A6, A5, A4, A3, A2, A1, A0
  };
  wire signed [18:0] b = {
    SIGNEDB & B17,
    B17, B16, B15, B14, B13, B12, B11, B10, B9,
    B8, B7, B6, B5, B4, B3, B2, B1, B0
  };
  wire signed [37:0] product = a * b;
  assign {
    P35, P34, P33, P32, P31, P30, P29, P28, P27,
    P26, P25, P24, P23, P22, P21, P20, P19, P18,
    P17, P16, P15, P14, P13, P12, P11, P10, P9,
    P8, P7, P6, P5, P4, P3, P2, P1, P0
  } = product[35:0];
endmodule
